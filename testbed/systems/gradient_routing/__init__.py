"""Gradient routing: where in the network each worker's gradients are summed, and at what rate.

The problem is GRIA of GRID (Fang et al., IEEE/ACM ToN 31(5), 2023, §3.2): every worker picks one
node, a programmable switch or the parameter server itself, such that the lowest rate of any worker
is as high as possible. Switches add, and the server's link receives, at a limited rate.

A worker gains nothing from sending faster than the slowest one, so all may send at one rate, and
the problem is linear in the time that a bit of gradient takes. For each way out of a rack, only the
number of workers that take it matters. The paper assumes that links are fast enough; here each link
may be a constraint. Flows take shortest paths and share ECMP sets evenly; returning sums count as
well.
"""
