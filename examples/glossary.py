"""Translates with a glossary through DeepL's own client, whose server address is Dragoman's.

    pip install deepl
    python examples/glossary.py [URL]

prints

    The dog is sleeping.
    The puppy is sleeping.
"""

import sys

import deepl

TEXT = "Der Hund schläft."

url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000"
# The key is one of the service's; any text if keys are off.
client = deepl.DeepLClient("key", server_url=url)

glossary = client.create_glossary("animals", "DE", "EN", {"Hund": "puppy"})
try:
    print(client.translate_text(TEXT, source_lang="DE", target_lang="EN-GB"))
    print(client.translate_text(TEXT, source_lang="DE", target_lang="EN-GB", glossary=glossary))
finally:
    client.delete_glossary(glossary)
