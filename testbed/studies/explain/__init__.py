"""Why a job took as long as it did.

``record`` is what a run in packets shows of itself, ``causes`` are what can be removed from a
deployment, ``attribution`` divides the JCT among them by running without them, ``diagnosis`` finds
what differs between a record and the experiment that was intended, ``drills`` are hidden faults for
it, and ``words`` are the sentences.
"""
