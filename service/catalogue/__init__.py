"""The models on offer: loaded, leased, routed to, and their recent results."""
