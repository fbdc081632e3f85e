/* Sums of a rack that end in a rank, and a rank's values for its rack (Rina, ICNP 2024): slots and
   window are as SwitchML's. */
#include "tree.h"

const struct protocol rack = {ON_TREES, .rules = &pool, .control = &none};
