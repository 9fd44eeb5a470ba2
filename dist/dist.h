#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <etna/device/error.h>
#include <etna/tensor/tensor.h>

/// Training in several processes: ranks 0 ... size() - 1 of one group, each with a device of its own. A program that
/// nothing launched is a group of one, in which every function here does nothing (docs/distributed.md).
///     distributed::init();
///     Tensor total = distributed::all_reduce(loss, distributed::Reduce::mean);
///     distributed::finish();
namespace etna::distributed {

/// A rank ended, does not answer, or never came. The group is of no use afterwards: every later call throws the same.
struct RankLost : Error {
  using Error::Error;
};

/// Ranks that called different things: other ops, shapes, dtypes, models or versions. All ranks throw it, naming them.
struct RanksDiffer : Error {
  using Error::Error;
};

struct Options {
  /// What moves tensors: "mpi", also those of GPUs; "nccl", where those of GPUs may go no other way; "none", with which
  /// ranks only meet. Empty: $ETNA_DIST, else MPI, if it started the ranks, and NCCL for GPUs where it runs.
  std::string engine = {};
  /// Where the ranks meet, if no launcher says it: HOST:PORT of rank 0, or a file that all ranks see (a path with a
  /// slash). Empty: $ETNA_MEET, else the launcher.
  std::string meet = {};
  int rank = -1, size = -1;   ///< -1: the launcher's, else $ETNA_RANK and $ETNA_WORLD_SIZE
  double join_seconds = 60;   ///< how long init() waits for all ranks
  double limit_seconds = 30;  ///< after which a rank that gives no sign of life is lost
  /// After which one that lives, but does not come to a collective, is lost. 0: $ETNA_LATE_SECONDS, else 600.
  double late_seconds = 0;
};

/// Joins the group: of mpirun, srun or torchrun by their variables, or by Options. A group of one without any.
/// @throws RankLost naming the ranks that did not come, RanksDiffer for another size or version of Etna, Error where
/// the engine does not work here, or if there is a group already
void init(const Options& options = {});
/// Leaves the group: waits until every rank does, unless one was lost. A program's exit does it, too.
void finish();

int rank();
int size();
int local_rank();  ///< among the ranks of this computer
int local_size();
/// Of a group of several ranks.
inline bool is_distributed() { return size() > 1; }
/// Whether this rank is the one to print why the group ended: all ranks throw it, and once is enough. `etna launch`
/// prints how a process ended by itself.
bool reports_failure();
/// The exit code of a program that ended because another rank did.
inline constexpr int kRankLostExit = 9;
/// The device of this rank: as select_device(), but where several GPUs of one kind would do, the local_rank()-th of
/// them. All ranks call it; NCCL joins their GPUs then, where it can.
/// @throws DeviceError where a computer has fewer of them than ranks
Device select_local_device(std::string_view requested = {});
/// "Open MPI 4.1.4"; empty in a group of one.
std::string engine();
/// Whether a collective of tensors on this device can be part of a captured step. On the CPU always.
bool can_capture(Device device);

// ---- Groups of some ranks: those that share a model (tensor parallelism), and those that have the same part of it
// (data parallelism).

/// Some of the ranks, numbered from 0. A handle: copies are the same group. It ends with finish().
///     // 8 ranks: models divided over 2, batches over 4
///     const auto model = distributed::split(distributed::rank() / 2);   // {0, 1}, {2, 3}, {4, 5}, {6, 7}
///     const auto data = distributed::split(distributed::rank() % 2);    // {0, 2, 4, 6}, {1, 3, 5, 7}
///     distributed::all_reduce(x, data);
class ProcessGroup {
 public:
  ProcessGroup() = default;  ///< all ranks

  int rank() const;  ///< of this process, in the group
  int size() const;
  /// The number among all ranks of one of the group's: what send() and receive_() take. @throws Error
  int world_rank(int rank) const;
  bool is_distributed() const { return size() > 1; }
  /// 0 for all ranks; else as many calls of split() as there were. For ops.
  int number() const { return number_; }
  static ProcessGroup numbered(int number);

 private:
  int number_ = 0;
};

/// Divides all ranks into groups: those of one color are one, ordered by key, then by rank. All ranks call it.
/// @param color at least 0 @return the group of this rank @throws Error on all ranks for a negative color; where the
/// engine has no groups
ProcessGroup split(int color, int key = 0);

enum class Reduce : std::uint8_t { sum, mean, max, min, product };

// ---- Collectives. Each rank calls the same ones in the same order, with the same shapes and dtypes. Sums are made in
// the order of ranks: the same bits on all ranks, and in every run with as many. Sums of f16 and bf16 are rounded once.
// Gradients are those of the sum of all ranks' losses. Tensors of NVIDIA GPUs travel by NCCL, which has an order of its
// own, the same in every run; those of other GPUs go through host memory.
// @throws RankLost, RanksDiffer, ShapeError, DtypeError, CaptureError

/// The elementwise sum, or another reduction, over all ranks.
/// @param x integers have no mean, bool has max and min only. A product has no gradient.
Tensor all_reduce(const Tensor& x, Reduce reduce = Reduce::sum);
/// The same in place, not recorded by autograd. @param x contiguous
void all_reduce_(const Tensor& x, Reduce reduce = Reduce::sum);
/// One part of all_reduce(x): the rank-th of size() equal parts of the first dimension.
/// @param x [size() · n, ...]   @return [n, ...]
Tensor reduce_scatter(const Tensor& x, Reduce reduce = Reduce::sum);
/// The tensors of all ranks along the first dimension, in their order. @param x [n, ...]   @return [size() · n, ...]
Tensor all_gather(const Tensor& x);
/// The tensor of one rank. @param x of the same shape and dtype everywhere; read at `root` only
Tensor broadcast(const Tensor& x, int root = 0);
/// The same in place, not recorded by autograd. @param x contiguous
void broadcast_(const Tensor& x, int root = 0);
/// Sends the i-th of size() equal parts of the first dimension to rank i. @param x [size() · n, ...]
/// @return the same shape: the parts received, in the order of ranks
Tensor all_to_all(const Tensor& x);
/// To one rank, which calls receive_(). Not recorded by autograd.
void send(const Tensor& x, int to);
/// Overwrites x with what rank `from` sends: the same shape and dtype. @param x contiguous
void receive_(const Tensor& x, int from);
/// Returns when all ranks have called it.
void barrier();

// ---- The same among the ranks of a group, all of which call them. Roots are ranks of the group.
// @throws as those

Tensor all_reduce(const Tensor& x, const ProcessGroup& group, Reduce reduce = Reduce::sum);
void all_reduce_(const Tensor& x, const ProcessGroup& group, Reduce reduce = Reduce::sum);
Tensor reduce_scatter(const Tensor& x, const ProcessGroup& group, Reduce reduce = Reduce::sum);
Tensor all_gather(const Tensor& x, const ProcessGroup& group);
Tensor broadcast(const Tensor& x, const ProcessGroup& group, int root = 0);
void broadcast_(const Tensor& x, const ProcessGroup& group, int root = 0);
Tensor all_to_all(const Tensor& x, const ProcessGroup& group);

/// The rank that waited least for the others since the last call. Known to rank 0 only; elsewhere rank -1. Not a
/// collective.
struct Slowest {
  int rank = -1;
  double seconds = 0;  ///< that the rank which waited most has waited longer
};
Slowest slowest_rank();

// ---- What the ranks of a group have to have in common. All of them call these.

/// Returns if every rank gives the same text. All ranks call it. @param what the text is of, for the error: "model"
/// @throws RanksDiffer on all ranks, with the first line that differs between rank 0 and the first rank that differs
void require_same(const std::string& what, const std::string& text);

/// As require_same() among the ranks of a group, all of which call it. @throws RanksDiffer naming two ranks
void require_same(const std::string& what, const std::string& text, const ProcessGroup& group);

/// Whether any rank says so: one that was interrupted, for example. All ranks call it.
bool any_rank(bool mine);
/// A seed of this rank's own; rank 0 keeps the seed.
std::uint64_t seed_of_rank(std::uint64_t seed);
/// Rank 0's number, exactly.
double number_of_first(double mine);

}  // namespace etna::distributed
