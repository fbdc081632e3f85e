/* Sums from a rack to a rank, and a rank's values for its rack (Rina, ICNP 2024): slots and window
   are as in SwitchML. */
#include "tree.h"

const struct protocol rack = {ON_TREES, .rules = &pool, .control = &none};
