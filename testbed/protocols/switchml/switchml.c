/* SwitchML at a host (Sapio et al., NSDI 2021): what is sent again is the same packet, slots are two
   pools in turn, and the window is fixed. */
#include "tree.h"

const struct protocol switchml = {ON_TREES, .rules = &pool, .control = &none};
