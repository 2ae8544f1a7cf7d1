"""Road maps: the data model, importers, procedural towns and the arrays that kernels read."""
