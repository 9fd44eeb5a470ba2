#pragma once

#include <etna/dist/internal/engine.h>
#include <etna/dist/internal/group.h>
#include <etna/tensor/tensor.h>

namespace etna::distributed {

/// Makes a collective of tensors on a GPU a command of the step that is being captured: the device copies what is sent
/// to memory that the host maps, the group's engine on the host works there, and the device copies the result back.
/// Whatever does not touch the tensors goes on meanwhile. @param op its name
/// @param in undefined for receive, contiguous
/// @param out undefined for send, contiguous. May share `in`'s storage, then wholly @throws CaptureError, OutOfMemory
void stage_collective(Group& group, const Collective& collective, const char* op, const Tensor& in, const Tensor& out);

}  // namespace etna::distributed
