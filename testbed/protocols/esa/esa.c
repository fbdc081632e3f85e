/* ESA at a host (Wang et al., arXiv 2201.06398): ATP's hosts, whose packets have a priority. A server
   that has a part of a sum waits for the rest; members retransmit what others overtake, which
   flushes it from the switches (our reading of its reminder). */
#include "atp.h"

const struct protocol esa = {ON_TREES, .rules = &atp_rules, .control = &aimd};
