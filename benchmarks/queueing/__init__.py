"""Queueing simulation of the service: predicts latencies and the number of replicas for a load.

    python -m benchmarks.queueing validate    # measure costs here, predict, measure, compare
    python -m benchmarks.queueing plan        # from costs and a load to a number of replicas

``costs`` models processor time, ``simulation`` one service, ``fleet`` many; ``service`` measures a
real one.
"""
