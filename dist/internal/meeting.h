#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

/// How the ranks of a group find each other, exchange small values and notice who is gone. Rank 0 serves; every rank,
/// rank 0 too, keeps a connection to it, on which it gives a sign of life.
namespace etna::distributed {

/// The share of the limit after which a rank is lost, so that others know within the limit.
inline constexpr double kSilence = 0.9;

/// What a rank does now, for messages. Sent along with signs of life.
struct Progress {
  std::uint64_t begun = 0;  ///< collectives
  std::uint64_t ended = 0;
  double waited = 0;  ///< seconds for other ranks
};

struct Member {
  std::string host = {};
  int process = 0;
  bool left = false;
  Progress progress = {};
};

/// Rank 0's part. A thread of its own.
class MeetingServer {
 public:
  /// @param host to listen at; empty: all of this computer's @param port 0: any that is free
  /// @param limit seconds after which a rank that gives no sign of life is lost @throws Error
  MeetingServer(const std::string& host, int port, int size, double limit);
  /// Ends when every rank has left or is lost; waits for that.
  ~MeetingServer();
  /// For Meeting: addresses, port, and a word that keeps strangers out, between blanks.
  std::string address() const;
  /// The same without addresses of other computers' networks.
  std::string local_address() const;
  /// Ends now.
  void stop();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

class Meeting {
 public:
  /// @param address of MeetingServer::address(), or "HOST PORT" @throws RankLost where nobody answers in time,
  /// RanksDiffer for a group of another size or version, or if the rank is taken
  Meeting(const std::string& address, int rank, int size, double join, double limit);
  ~Meeting();
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  /// Values are for keys of one use: they are kept as long as rank 0 runs.
  void put(const std::string& key, const std::string& value);
  /// Waits for the value. @throws RankLost naming `from` after so many seconds, or the rank that was lost meanwhile
  std::string get(const std::string& key, int from, double seconds);
  /// The values of all ranks under one name, which each rank puts once.
  std::vector<std::string> gather(const std::string& name, const std::string& value, double seconds);

  /// Sends a text to all other ranks that have come; they get those of rank 0 in their order. Does not wait for them.
  /// @throws RankLost once the group has ended; Error for more than 60 MiB
  void announce(const std::string& text);
  /// Waits for rank 0's next announcement, without using a core. @return nothing where none comes in so many seconds
  /// @throws RankLost where rank 0 leaves, or any rank is lost
  std::optional<std::string> next_announcement(double seconds);

  /// What ended the group, a sentence; empty as long as all ranks live. Cheap.
  bool failed() const;
  std::string failure() const;
  /// The rank that was lost; -1: none, or another failure.
  int lost() const;
  /// Ends the group for this rank, if it has not ended yet.
  void fail(const std::string& sentence);
  /// What is known of all ranks; asks rank 0, and is older where that does not answer within a second.
  std::vector<Member> members();
  bool left(int rank) const;
  /// What an engine has done so far; others see the sum over the engines. @param engine tells them apart
  void report(const Progress& progress, const void* engine = nullptr);

  /// Tells the others, and waits until all have left or one is lost.
  void leave();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace etna::distributed
