"""Text functions that training and the service share."""
