"""What `weft.save` and `weft.load` are made of: zip archives, pickles, the allow-list.

`unpickler` interprets pickles over the names in `globals`, `archive` reads and writes zip files,
`pickler` turns objects into PyTorch's pickles, `legacy` reads files from before PyTorch 1.6, and
`atomic` replaces a file as one step.
"""
