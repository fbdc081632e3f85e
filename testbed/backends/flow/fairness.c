/* Water-filling as in fairness.py, operation by operation: the results are the same to the bit. */
#include <math.h>
#include <stdint.h>
#include <string.h>

/* Entries are sorted by flow; flows without entries keep their cap. `left` holds the capacities.
 * `load` and `nearest` have a place per link; `fair` and `worst` one per flow. `flow`, `link` and
 * `amount` are overwritten. */
void max_min(int64_t links, int64_t entries, double equal, int64_t *flow, int64_t *link,
             double *amount, const double *cap, double *rate, double *left, double *load,
             double *nearest, double *fair, double *worst)
{
    while (entries) {
        memset(load, 0, (size_t)links * sizeof *load);
        for (int64_t i = 0; i < entries; i++)
            load[link[i]] += amount[i];
        for (int64_t i = 0; i < entries; i++) {
            double level = load[link[i]] > 0 ? left[link[i]] / load[link[i]] : INFINITY;
            if (i == 0 || flow[i] != flow[i - 1])
                fair[flow[i]] = cap[flow[i]];
            fair[flow[i]] = fmin(fair[flow[i]], level);
        }
        for (int64_t i = 0; i < links; i++)
            nearest[i] = INFINITY;
        for (int64_t i = 0; i < entries; i++)
            nearest[link[i]] = fmin(nearest[link[i]], fair[flow[i]]);
        for (int64_t i = 0; i < entries; i++) {
            if (i == 0 || flow[i] != flow[i - 1])
                worst[flow[i]] = INFINITY;
            worst[flow[i]] = fmin(worst[flow[i]], nearest[link[i]]);
        }
        memset(load, 0, (size_t)links * sizeof *load); /* now what settled flows take */
        int64_t kept = 0;
        for (int64_t i = 0; i < entries; i++) {
            int64_t of = flow[i];
            if (fair[of] <= worst[of] * equal) {
                rate[of] = fair[of];
                load[link[i]] += amount[i] * fair[of];
            } else {
                flow[kept] = of;
                link[kept] = link[i];
                amount[kept++] = amount[i];
            }
        }
        for (int64_t i = 0; i < links; i++)
            left[i] = fmax(left[i] - load[i], 0.0);
        entries = kept;
    }
}
