#pragma once

#include <etna/models/projection.h>

namespace etna::models {

/// Rows of a table that may be frozen. @param indices [...] i32 or i64 @return [..., table.in]
Tensor table_rows(const Projection& table, const Tensor& indices);

}  // namespace etna::models
