// A change of the aggregation rule, as an example of a user's own program: sums stop at the largest
// and smallest int32 where they would wrap around. Everything else is p4/ as it is.
//
//     emulation:
//       p4_program: ../p4/examples/saturating.p4

#define SATURATE
#include "ina.p4"
