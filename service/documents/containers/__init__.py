"""What documents are stored in: archives, XML, encoded text."""
