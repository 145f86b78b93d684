"""The chart of docs/performance.md, from the results of part n to a picture and a table.

Open `pairs` first. Never a number that was not measured: what is drawn is read from a file beside the picture.
"""
