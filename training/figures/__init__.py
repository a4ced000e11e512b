"""Figures of training for the documentation, drawn with matplotlib from code and runs.

A figure is a function of plain inputs that returns a matplotlib ``Figure``. ``registry`` names the
figures and their inputs; ``style`` defines their look and file formats. Nothing here trains, and no
other package imports this one.
"""
