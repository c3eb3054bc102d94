"""`weft serve`: a program of a file behind HTTP, one batch for the requests that wait.

In reading order: `command` is what users call, `front` takes requests and answers them, `batches`
runs those that wait, `wire` is how values look in them.
"""
