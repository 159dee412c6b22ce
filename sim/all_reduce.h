// Collectives: what the members of an all-reduce send each other, and how long it takes them.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "sim/hardware.h"
#include "sim/traffic.h"

namespace unlatch::sim {

/// What goes between members 0..n-1, all of it at once, in shares of the bytes that one brings.
struct Collective {
  struct Flow {
    int from = 0;
    int to = 0;
    double share = 0;
  };
  std::vector<Flow> flows;
  int steps = 0;  ///< messages that wait for one another, hence latencies
};

/// A sum in a ring: 2 (n-1) steps in each of which a member hands on a share of 1/n, which makes
/// 2 (n-1) latency + 2 (n-1)/n bytes/bandwidth (Patarasuk and Yuan, JPDC 69, 2009).
Collective ring_all_reduce(int members);

/// A sum up and down two binary trees with half of the bytes each; a member with two children in
/// one is a leaf of the other (Sanders, Speck and Traff, Parallel Computing 35, 2009; NCCL 2.4).
/// Pipelined, that is 2 latency log2(n) + 2 bytes/bandwidth: a member sends at most one half up and
/// two down in one tree and one up in the other.
Collective tree_all_reduce(int members);

/// Every member gets what each of the others brings, in a ring: (n-1) latency + (n-1)
/// bytes/bandwidth. What is left of compressed gradients travels so: their entries are not the same
/// in any two members (modern.md 5.8).
Collective ring_all_gather(int members);

/// The flows of a collective whose members bring that many bytes, each behind all latencies, those
/// of the slowest of its routes.
std::vector<Transfer> transfers_of(const Collective& collective, double bytes,
                                   const std::function<Route(int from, int to)>& route);

/// How long transfers take that start together and have the links to themselves, `rates` bytes a
/// second: the longest latency, and what the link needs that has most to carry. That is max-min
/// fair sharing where all carry as many bytes, as those of a collective do. Throws Error above 126
/// years.
nanoseconds time_alone(std::span<const Transfer> transfers, std::span<const double> rates);

}  // namespace unlatch::sim
