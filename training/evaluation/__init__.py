"""Translation quality: BLEU, chrF and TER, significance tests, diagnostics, an HTML report."""
