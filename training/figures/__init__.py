"""Pictures of what is trained and how: drawn from our own code and runs, by nothing but functions.

A figure is a function of plain inputs that returns a matplotlib ``Figure``, in the module of what
it shows. ``registry`` names the figures and says what each is drawn from; ``style`` is how they
look and how they are written. Nothing here trains, and nothing else imports this.
"""
