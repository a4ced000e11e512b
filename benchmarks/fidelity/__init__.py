"""Fidelity benchmark: translations must keep the figures, symbols and placeholders of the source.

``inputs`` generates the source texts, ``figures`` recognises numbers, dates and times and their
localised forms, ``scoring`` judges one translation, ``__main__`` translates and reports.
"""
