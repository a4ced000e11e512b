"""How long requests take at a load nobody has tried, and how many replicas keep that short.

    python -m benchmarks.queueing validate    # measure costs here, predict, measure, compare
    python -m benchmarks.queueing plan        # from costs and a load to a number of replicas

``costs`` says what work costs, ``batch`` what work an iteration of the engine has, ``replica`` what
becomes of requests at one service, ``fleet`` at many; ``watched`` measures a real one.
"""
