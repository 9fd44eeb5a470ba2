#pragma once

namespace etna {

/// How a loss combines the losses of its elements or rows.
enum class Reduction { none, mean, sum };

}  // namespace etna
