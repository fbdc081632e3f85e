/* aimd is ATP's control (NSDI 2021): ECN or a timeout halves the fragments allowed in flight, at
   most once per round trip; each answered window adds one. A gap reduces them by an eighth for each
   missing fragment. There the paper halves them too, and the released code does nothing. This is
   our reading: under random loss ATP's window always has a gap, because each member sees the losses
   of all. */
#include "congestion.h"

#include <math.h>

#include "wire.h"

static const double TAKEN = 0.125; /* fragments less in flight for each one missing */
enum { LEAST_IN_FLIGHT = 8 };

void congestion_open(struct congestion *congestion, const struct control *control, uint32_t window,
                     uint64_t begins)
{
    *congestion = (struct congestion){
        .control = control,
        .allowed = window,
        .least = fmin(window, LEAST_IN_FLIGHT),
        .most = window,
        .last_cut = -INFINITY,
        .begins = begins,
        .ends = begins + window,
    };
    if (control->open)
        control->open(congestion);
}

static void take(struct congestion *congestion, const struct feedback *answer)
{
    (void)congestion, (void)answer;
}

void congestion_ignore(struct congestion *congestion)
{
    (void)congestion;
}

void congestion_go_on(struct congestion *congestion, double now, double round_trip)
{
    (void)congestion, (void)now, (void)round_trip;
}

const struct control none = {
    .answered = take, .missed = congestion_ignore, .slow_down = congestion_go_on};

static void grow(struct congestion *congestion, const struct feedback *answer)
{
    if (answer->flags & FLAG_ECN)
        congestion_halve(congestion, answer->now, answer->round_trip);
    congestion->allowed = fmin(congestion->allowed + 1 / congestion->allowed, congestion->most);
}

void congestion_shrink(struct congestion *congestion)
{
    congestion->allowed = fmax(congestion->allowed - TAKEN, congestion->least);
}

void congestion_halve(struct congestion *congestion, double now, double round_trip)
{
    if (now - congestion->last_cut <= round_trip)
        return;
    congestion->allowed = fmax(congestion->allowed / 2, congestion->least);
    congestion->last_cut = now;
}

void congestion_adjust(struct congestion *congestion)
{
    if (congestion->marked)
        congestion->allowed *= 1 - congestion->marked_share / 2;
    else
        congestion->allowed++;
    congestion->allowed = fmin(fmax(congestion->allowed, congestion->least), congestion->most);
}

const struct control aimd = {
    .answered = grow, .missed = congestion_shrink, .slow_down = congestion_halve};
