"""Glossary terms: forced during decoding, inserted where decoding missed them."""
