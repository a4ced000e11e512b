"""Grammars of paragraphs: runs, inline markup, lines."""
