"""Glossary terms: found in sentences, inserted into translations by word alignment."""
