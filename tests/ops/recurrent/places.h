#pragma once

#include <vector>

#include "conformance/samples.h"

namespace etna::conformance {

/// Adds the rows of states and the positions of sequences as inputs. @param each [B]
inline void add_places(Sample& sample, const Shape& each, const std::vector<double>& rows,
                       const std::vector<double>& positions) {
  for (const std::vector<double>* values : {&rows, &positions})
    sample.values(each, *values).as(i32).constant().dense();  // expanded, two sequences would have one state
}

}  // namespace etna::conformance
