"""Why a job took as long as it did.

``record`` is what a run in packets shows. ``causes`` are what can be removed from a deployment.
``attribution`` divides the JCT among them by runs without them. ``diagnosis`` finds what differs
between a record and the experiment that was intended, and ``drills`` are hidden faults for it.
``words`` makes the sentences.
"""
