/* ESA at a host (Wang et al., arXiv 2201.06398): ATP's hosts, whose packets have a priority. A
   server that has a part of a sum waits for the rest. Members retransmit fragments that others
   overtake, which flushes them from the switches (our reading of ESA's reminder). */
#include "atp.h"

const struct protocol esa = {ON_TREES, .rules = &atp_rules, .control = &aimd};
