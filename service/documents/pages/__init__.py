"""Pages of PDF files: glyphs, lines, blocks of text, fonts and content streams."""
