#pragma once

#include <cstdint>
#include <string>

/// What the ranks of a group have to have in common.
namespace etna::distributed {

/// Returns if every rank gives the same text. All ranks call it. @param what the text is of, for the error: "model"
/// @throws RanksDiffer on all ranks, with the first line that differs between rank 0 and the first rank that differs
void require_same(const std::string& what, const std::string& text);

/// Whether any rank says so: one that was interrupted, for example. All ranks call it.
bool any_rank(bool mine);
/// A seed of this rank's own; rank 0 keeps the seed.
std::uint64_t seed_of_rank(std::uint64_t seed);
/// Rank 0's number, exactly.
double number_of_first(double mine);

}  // namespace etna::distributed
