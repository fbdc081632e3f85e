#include "spells.h"

#include <stdlib.h>

void spells_close(struct spells *spells)
{
    free(spells->all);
}

struct spell *spells_add(struct spells *spells, instant from, instant until)
{
    struct spell *last = spells->count ? &spells->all[spells->count - 1] : NULL;
    if (!last || from > last->until + spells->pause) {
        if (spells->count == spells->room) {
            spells->room = spells->room ? 2 * spells->room : 16;
            spells->all = realloc(spells->all, spells->room * sizeof *spells->all);
            if (!spells->all)
                abort();
        }
        last = &spells->all[spells->count++];
        *last = (struct spell){.from = from, .until = until};
    }
    if (until > last->until)
        last->until = until;
    last->busy += until - from;
    return last;
}
