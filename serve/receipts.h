#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <etna/serve/answer_event.h>
#include <etna/train/receipt.h>

/// Receipts of single requests (docs/receipts.md). Requests run together, so that kernels belong to several of them: a
/// receipt states what ran in the process from the request's begin to its end, and who else ran meanwhile.
namespace etna::serve {

class Receipts;

/// The receipt of one request, while it runs and afterwards. The engine reports to it from one thread at a time, and
/// others ask for its text.
class RequestReceipt : public std::enable_shared_from_this<RequestReceipt> {
 public:
  /// @param owner must outlive this object @param reader who may read it; empty: everybody
  RequestReceipt(Receipts& owner, std::string id, std::string reader, std::string request, std::string endpoint);
  ~RequestReceipt();
  RequestReceipt(const RequestReceipt&) = delete;
  RequestReceipt& operator=(const RequestReceipt&) = delete;

  const std::string& id() const { return id_; }
  const std::string& reader() const { return reader_; }

  /// Sequences were queued for the request. @param seeds of theirs
  void submitted(std::size_t model, const std::string& model_name, const std::vector<std::uint64_t>& seeds);
  /// A sequence is about to begin; the first one begins the interval. @param steps of the engine so far
  /// @param others sequences of other requests that run @return whether the interval begins
  bool begins(std::uint64_t steps, std::int64_t others);
  /// A prompt was read for its log-probabilities.
  void scored(std::int64_t tokens);
  /// Something else began: a sequence of another request, or an embedding.
  void shared();
  /// A sequence ended. The last one ends the interval, and the receipt can be read.
  /// @param finish its last event @param ran whether it had begun @return whether the interval ends
  bool ends(const AnswerEvent& finish, bool ran, std::uint64_t steps);

  bool running() const;
  /// The receipt as JSON. @throws Error if it could not be made; FormatError as training::Receipt::text()
  std::string text() const;

 private:
  Receipts& owner_;
  const std::string id_, reader_, request_, endpoint_;
  mutable std::mutex mutex_;
  std::string model_name_, finish_, error_;
  std::size_t model_ = 0;
  std::int64_t open_ = 0, sequences_ = 0, shared_with_ = 0;
  std::int64_t tokens_read_ = 0, tokens_cached_ = 0, tokens_written_ = 0;
  double queued_ = 0, first_token_ = 0, total_ = 0;  ///< seconds
  std::uint64_t steps_before_ = 0, steps_ = 0;
  std::vector<std::uint64_t> seeds_;
  std::optional<training::ReceiptMoment> begin_;
  std::optional<training::ReceiptPart> part_;
};

/// The receipts of the last requests that asked for one. Safe to use from all threads.
class Receipts {
 public:
  /// @param service what the whole process is and runs; must outlive this object and not be changed meanwhile
  /// @param kept the number of receipts that are kept @param other_files by model: roles of files it is not made of
  Receipts(const training::Receipt& service, std::size_t kept, std::vector<std::vector<std::string>> other_files = {});

  /// The receipt of a request that begins. @param client as HttpRequest::client @param request its id
  std::shared_ptr<RequestReceipt> open(const std::string& client, const std::string& request,
                                       const std::string& endpoint);
  /// The receipt of this id that the client may read, or null.
  std::shared_ptr<RequestReceipt> find(const std::string& id, const std::string& client) const;
  std::size_t kept() const { return kept_; }

 private:
  friend class RequestReceipt;
  void keep(std::shared_ptr<RequestReceipt> receipt);
  void drop(const std::string& id);

  const training::Receipt& service_;
  const std::size_t kept_;
  const std::vector<std::vector<std::string>> other_files_;
  mutable std::mutex mutex_;
  std::map<std::string, std::weak_ptr<RequestReceipt>> running_;
  std::deque<std::shared_ptr<RequestReceipt>> ended_;
};

}  // namespace etna::serve
