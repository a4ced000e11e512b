"""The use case: from texts to translations, and the models that make them."""
