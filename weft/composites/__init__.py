"""Functions and methods written in Python over the table's operators, by family.

A file has the stem of the one in `src/ops` that it is nearest to. What a definition is lies beside
it: a function of `weft` if the file's `__all__` names it, a method of Tensor, an in-place form or a
form that takes `out=` if its decorator says so (`weft/base/forms.py`). A gradient comes with the
operators, to any order.
"""
