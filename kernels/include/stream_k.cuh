// Stream-K: who computes what. Whole units first, one a cluster in every wave; what is left is laid
// end to end along K, a stream of steps, and cut into equal shares.
//
// A unit is a pair of tiles that a cluster computes. There may be two kinds, wide units first: a step
// of K of a wide unit costs WIDE, of the others LESS. Handing over costs about COST steps of a wide unit:
// where the last wave of whole units idles less than that, all units are whole.
//
// Whole units are taken by a cluster's place on the chip (places.cuh), shares by its number in the launch.
// A cluster goes through its share from the back. The first steps of a unit that another cluster
// finishes come first: their sums are given away early. The last steps of a unit come at the end: then
// the sums of those who gave are added. So a cluster waits only for clusters of smaller numbers, and
// those wait for smaller ones still. Where blocks start in the order of their numbers, as they were seen
// to, somebody can always go on, however many run at once. CUDA promises no order: so the host launches
// no more than run at once.
#pragma once

constexpr int SHARERS = 4;    // of a unit, about: who finishes it reads what all others give
constexpr int MIN_STEPS = 2;  // of a unit that are worth a share; fewer go with their neighbours

struct Point {
  int unit, step;
};

// [piece]
struct Piece {
  int unit, first, last;  // steps `first` to `last` − 1 of K
  int givers;             // clusters that give the sums of earlier steps; −1: this one gives its own
};
// [/piece]

template <int WIDE, int LESS, int COST>
struct StreamK {
  int wide, units, steps;  // wide units, all of them, steps of K of each
  int cluster, clusters;   // this one's number in the launch, and how many there are
  int place;               // by which it takes whole units: its number in the launch, then by place
  int waves;               // of whole units; where there is no stream, the last one may be partial
  int pieces;              // whole units and shares of this cluster, those of the stream once it is cut
  Point first, last;       // this cluster's share: from a step of the one to before a step of the other
  int givers;

  // [plan]
  // Whole units only, or, if `may_share`, a stream behind them, where that ends earlier. Returns when,
  // as a cost.
  __device__ float plan(bool may_share) {
    const int of_wide = (wide + clusters - 1) / clusters, of_all = (units + clusters - 1) / clusters;
    const float whole = float(of_wide * WIDE + (of_all - of_wide) * LESS) * steps;
    const float even = float(wide * WIDE + (units - wide) * LESS) * steps / clusters;
    const float shared = even + COST * WIDE;
    if (!may_share || whole <= shared) {
      waves = pieces = (units + clusters - 1) / clusters;
      return whole;
    }
    waves = wide / clusters;
    // Where little is left, each unit would have many sharers: one more wave joins the stream.
    if (waves > 0 && rest() > 0 && rest() * SHARERS < clusters * steps * WIDE) --waves;
    pieces = waves + (rest() > 0);
    return shared;
  }
  __device__ int rest() const {  // cost of the stream
    return ((wide - waves * clusters) * WIDE + (units - wide) * LESS) * steps;
  }
  // [/plan]

  // [cut]
  __device__ void cut() {
    const int most = (rest() / (steps * WIDE) + 1) * SHARERS, worth = rest() / (2 * MIN_STEPS * WIDE) + 1;
    const int sharers = min(clusters, min(most, worth));
    pieces = waves;
    if (cluster >= sharers) return;
    first = point(cluster, sharers), last = point(cluster + 1, sharers);
    if (last.step == 0) last = {last.unit - 1, steps};
    pieces += last.unit - first.unit + 1;
    givers = 0;
    for (Point at = first; at.unit == first.unit && at.step > 0;) at = point(cluster - ++givers, sharers);
  }
  // Where the share of a sharer begins.
  __device__ Point point(int sharer, int sharers) const {
    const int place = rest() / sharers * sharer + rest() % sharers * sharer / sharers;
    const int long_ones = (wide - waves * clusters) * WIDE * steps;  // the stream's wide units
    const int cost = steps * (place < long_ones ? WIDE : LESS);
    const int from = place < long_ones ? place : place - long_ones;
    const int unit = (place < long_ones ? waves * clusters : wide) + from / cost;
    const int step = from % cost / (place < long_ones ? WIDE : LESS);
    if (step < MIN_STEPS) return {unit, 0};
    return steps - step < MIN_STEPS ? Point{unit + 1, 0} : Point{unit, step};
  }
  // [/cut]

  // [take]
  __device__ Piece piece(int index) {
    if (index < waves) return {place + index * clusters, 0, steps, 0};
    const int unit = last.unit - (index - waves);  // from the back
    const int from = unit == first.unit ? first.step : 0, to = index == waves ? last.step : steps;
    return {unit, from, to, to < steps ? -1 : from > 0 ? givers : 0};
  }
  // [/take]
};
