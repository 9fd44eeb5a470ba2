#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <thread>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <fmt/format.h>

#include <etna/data/tokenizers/chat_template.h>
#include <etna/data/tokenizers/internal/chat/jinja_template.h>
#include <etna/device/error.h>
#include <etna/device/output_file.h>
#include <etna/dist/dist.h>
#include <etna/dist/internal/group.h>
#include <etna/serve/cache_file.h>
#include <etna/serve/engine.h>
#include <etna/serve/http_server.h>
#include <etna/serve/internal/images.h>
#include <etna/serve/service.h>
#include <etna/tensor/ops.h>
#include <etna/train/progress.h>

#include "arguments.h"
#include "commands.h"
#include "generation.h"
#include "output.h"
#include "ranks.h"
#include "serve_receipt.h"
#include "text_answer.h"

namespace etna::cli {
namespace {

using training::printable;

struct ServeOptions : ModelOptions {
  std::string alias, key_file, chat_format, cache_file;
  std::vector<std::string> adapters;  ///< NAME=FILE; FILE for all
  std::vector<std::string> names;     ///< of `stacked`
  std::int64_t parallel = 4, drain_seconds = 30, queue_seconds = 60, answer_seconds = 600, body_mib = 8;
  bool exit_on_failure = false, no_warm_up = false, no_images = false;
  std::int64_t megapixels = 64, image_mib = 1024;
  serve::EngineOptions engine;
  serve::ServiceOptions service;
  serve::HttpOptions http;
  serve::ImageLimits images;
  ServeReceiptOptions receipts;
};

/// As clients call a model: its file's name without the ending, or its folder's.
std::string model_name(const std::string& path) {
  std::filesystem::path name(path);
  if (!name.has_filename()) name = name.parent_path();
  const std::string kind = name.extension().string();
  const bool ends = kind == ".gguf" || kind == ".bin" || kind == ".safetensors";
  const std::string stem = ends ? name.stem().string() : name.filename().string();
  return stem.empty() ? "model" : stem;
}

/// Splits --adapter into the files and names of those that requests choose, and the one for all requests.
void read_adapters(ServeOptions& options) {
  if (options.alias.empty()) options.alias = model_name(options.model);
  for (const std::string& given : options.adapters) {
    const std::size_t equals = given.find('=');
    if (equals == 0 || equals + 1 == given.size())
      throw FormatError(fmt::format("--adapter {}: wanted FILE or NAME=FILE", given));
    if (equals != std::string::npos) {
      const std::string name = given.substr(0, equals);
      if (name == options.alias || std::find(options.names.begin(), options.names.end(), name) != options.names.end())
        throw FormatError(fmt::format("two models have the name '{}'", name));
      options.names.push_back(name);
      options.stacked.push_back(given.substr(equals + 1));
    } else if (options.adapter.empty()) {
      options.adapter = given;
    } else {
      throw FormatError(
          fmt::format("--adapter {}: all answers have the adapter {} already; give this one a name, "
                      "NAME=FILE, for requests to choose it",
                      given, options.adapter));
    }
  }
}

/// The model, and a name for it with each of the named adapters.
class Models {
 public:
  /// @param loaded the others of its ranks follow
  Models(const ServeOptions& options, LoadedModel& loaded) : loaded_(loaded) {
    const auto begin = std::chrono::steady_clock::now();
    if (options.sees) {
      vision_ = open_vision(options, loaded_);
      images_ = std::make_unique<serve::ImageStore>(*vision_, options.images);
    }
    if (!options.no_warm_up) warm_up();
    seconds_ = loaded_.seconds + std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    const std::int64_t most = loaded_.model.decoder->config.context;
    const std::int64_t context = options.context > 0 ? std::min(options.context, most) : most;
    const auto serve = [&](const std::string& name) {
      served_.push_back({name, loaded_.model.decoder.get(), loaded_.generator.get(), loaded_.model.tokenizer.get(),
                         loaded_.device, options.parallel, context, std::ssize(served_) - 1, distributed::size(),
                         options.cache_file, images_.get()});
    };
    serve(options.alias);
    for (const std::string& name : options.names) serve(name);
    load_cache(options.quiet);
  }

  const std::vector<serve::ServedModel>& served() const { return served_; }
  double seconds() const { return seconds_; }

 private:
  void warm_up() const {
    loaded_.generator->warm_up();
    if (!vision_ || loaded_.device.is_cpu()) return;
    models::SeenPicture blank = vision_->seen(zeros({3, 64, 64}, u8));
    vision_->read(blank);
  }
  /// A file that cannot be used costs time, which is no reason not to serve.
  void load_cache(bool quiet) const {
    const serve::ServedModel& model = served_.front();
    if (model.cache_file.empty()) return;
    try {
      const std::int64_t blocks = serve::load_cache_file(model);
      if (!quiet && blocks > 0)
        std::fprintf(stderr, "%s: %lld blocks of prefixes\n", printable(model.cache_file).c_str(),
                     static_cast<long long>(blocks));
    } catch (const FormatError& error) {
      print_error(fmt::format("{}; its prefixes are read anew", printable(error.what())));
    }
  }

  LoadedModel& loaded_;
  std::unique_ptr<models::VisionModel> vision_;  ///< null: the model sees no images
  std::unique_ptr<serve::ImageStore> images_;
  std::vector<serve::ServedModel> served_;
  double seconds_ = 0;
};

/// Bodies and grammars of some MiB go back to the system when they are freed, and few heaps keep the rest: by itself
/// glibc keeps more the larger a request once was, for each of 8 heaps a core.
void keep_little_freed_memory() {
#ifdef __GLIBC__
  ::mallopt(M_MMAP_THRESHOLD, 256 << 10);
  ::mallopt(M_TRIM_THRESHOLD, 1 << 20);
  ::mallopt(M_ARENA_MAX, 4);
#endif
}

/// Whether requests may have images: of a folder with a vision tower, or with a file that has one.
void read_image_options(ServeOptions& options) {
  options.sees = !options.no_images && !distributed::is_distributed() &&
                 (!options.mmproj.empty() || models::has_vision(model_path(options.model)));
  options.images.pixels = options.megapixels << 20;
  options.images.bytes = options.image_mib << 20;
}

/// What a model that is divided over processes cannot do. @throws RankFailed
void refuse_divided(const ServeOptions& options) {
  if (!options.mmproj.empty())
    throw RankFailed("--mmproj: a model that is divided over processes reads no images; leave it out", 2);
  if (!options.adapters.empty()) {
    throw RankFailed(
        "--adapter: an adapter's weights cannot be divided over processes; merge them into the model, or serve on one "
        "device",
        2);
  }
  if (!options.cache_file.empty()) {
    throw RankFailed(
        "--cache-file: a model that is divided over processes has a part of the prefixes in each, which are not saved; "
        "leave it out",
        2);
  }
}

/// Why the processes that a model is divided over cannot go on; empty: they can.
std::string ranks_failure() {
  distributed::Group* group = distributed::group();
  return group == nullptr ? "" : group->meeting().failure();
}

/// What rank 0 reads before it loads a model.
std::unique_ptr<ServeReceipts> prepare(ServeOptions& options) {
  if (!options.key_file.empty()) options.http.keys = serve::read_keys(options.key_file);
  io::require_output({"--cache-file", options.cache_file, {"etna kv cache"}}, options.force, models_of(options));
  return std::make_unique<ServeReceipts>(options, options.receipts, options.names);
}

/// Serves until a signal or, if the model's ranks cannot go on, until that. @return the exit code
/// @throws distributed::RankLost
int serve_until_end(ServeOptions& options, LoadedModel& loaded, ServeReceipts& receipts) {
  const training::Interrupt interrupt;
  const Models models(options, loaded);
  options.service.receipts = receipts.loaded(models.served());
  options.engine.queue_time = std::chrono::seconds(options.queue_seconds);
  options.engine.answer_time = std::chrono::seconds(options.answer_seconds);
  options.service.chat_format = options.chat_format;
  options.http.body_bytes = static_cast<std::size_t>(options.body_mib) << 20;
  options.http.log = !options.quiet;
  serve::Engine engine(models.served(), options.engine);
  serve::Service service(engine, options.service);
  serve::HttpServer server(service, options.http);
  const int port = server.start();
  const serve::ServedModel& first = models.served().front();
  const bool v6 = options.http.host.find(':') != std::string::npos;
  print_now(fmt::format("serving {} on http://{}{}{}:{}, {} slots of {} tokens{}\n", printable(first.name),
                        v6 ? "[" : "", options.http.host, v6 ? "]" : "", port, first.slots, first.context,
                        first.ranks > 1 ? fmt::format(", divided over {} processes", first.ranks) : ""));
  if (!options.quiet) std::fprintf(stderr, "ready after %.1f s; Ctrl-C or SIGTERM ends it\n", models.seconds());
  const auto pause = [] { std::this_thread::sleep_for(std::chrono::milliseconds(50)); };
  const auto failed = [&] {
    // Ranks cannot begin again.
    if (first.ranks > 1 && (!ranks_failure().empty() || !engine.state().failure.empty())) return true;
    return options.exit_on_failure && !engine.state().failure.empty();
  };
  while (!interrupt.requested() && !failed()) pause();
  engine.drain();
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(options.drain_seconds);
  if (!options.quiet && !failed()) std::fprintf(stderr, "ending: no new requests; the running ones finish\n");
  while (!engine.idle() && std::chrono::steady_clock::now() < until) pause();
  engine.stop();
  // The last replies are written before connections end.
  for (int i = 0; i < 10 && service.connections > 0; ++i) pause();
  server.stop();
  receipts.write(engine, service, models.seconds());
  if (const std::string lost = ranks_failure(); !lost.empty()) throw distributed::RankLost("distributed: " + lost);
  if (failed()) {
    print_error(engine.state().failure);
    return 3;
  }
  if (!engine.state().failure.empty()) return 0;
  if (!first.cache_file.empty()) serve::save_cache_file(first);
  return 0;
}

int serve_models(ServeOptions options) try {
  read_adapters(options);
  read_image_options(options);
  keep_little_freed_memory();
  const bool first = distributed::rank() == 0;
  const auto receipts = on_all_ranks([&] { return first ? prepare(options) : nullptr; });
  LoadedModel loaded = open_model(options, options.parallel);
  loaded.model.decoder->eval();
  return leads(loaded) ? serve_until_end(options, loaded, *receipts) : 0;
} catch (const FormatError& error) {
  print_error(printable(error.what()));
  return 4;
}

void add_image_limits(CLI::App& command, ServeOptions& options) {
  add_mmproj_option(command, options);
  command.add_flag("--no-images", options.no_images,
                   "leave the vision tower of the model's folder out: requests with images are refused");
  command.add_option("--max-images", options.images.images, "the most images of one request")
      ->check(number_in(training::integers(1, 1024)))
      ->capture_default_str();
  command.add_option("--max-megapixels", options.megapixels, "the most pixels of an image, in 2^20")
      ->check(number_in(training::integers(1, 256)))
      ->capture_default_str();
  command
      .add_option("--image-memory", options.image_mib,
                  "the host's memory for the images of requests and of the last ones, in MiB")
      ->check(number_in(training::integers(1, 1 << 20)))
      ->capture_default_str();
}

void add_limits(CLI::App& command, ServeOptions& options) {
  const auto seconds = number_in(training::integers(1, 86'400));
  command.add_option("--parallel", options.parallel, "sequences that are generated at once")
      ->check(number_in(training::integers(1, 1024)))
      ->capture_default_str();
  command.add_option("--max-queue", options.engine.max_queue, "sequences that wait for a slot; more get status 429")
      ->check(number_in(training::integers(0, 1'000'000)))
      ->capture_default_str();
  command.add_option("--queue-seconds", options.queue_seconds, "what has waited longer gets status 503")
      ->check(seconds)
      ->capture_default_str();
  command.add_option("--request-seconds", options.answer_seconds, "the longest that a request takes")
      ->check(seconds)
      ->capture_default_str();
  command.add_option("--drain-seconds", options.drain_seconds, "after SIGTERM, running requests may take so long")
      ->check(number_in(training::integers(0, 86'400)))
      ->capture_default_str();
  command
      .add_option("--max-tokens", options.service.max_tokens, "the most tokens of one answer (default: the context)")
      ->check(number_in(training::integers(1)));
  command.add_option("--max-choices", options.service.max_choices, "the most texts of one request")
      ->check(number_in(training::integers(1, 128)))
      ->capture_default_str();
  command.add_option("--max-body", options.body_mib, "the largest body of a request, in MiB")
      ->check(number_in(training::integers(1, 1024)))
      ->capture_default_str();
  command
      .add_option("--connections", options.http.connections, "connections that are open at once; more get status 503")
      ->check(number_in(training::integers(1, 10'000)))
      ->capture_default_str();
  command.add_flag(
      "--all-slots", options.all_slots,
      "compute all slots in each step: an answer then does not depend, to the last bit, on how many others "
      "are written");
  command.add_flag("--no-warm-up", options.no_warm_up,
                   "listen at once: the first requests wait until kernels are compiled");
  command.add_flag("--exit-on-failure", options.exit_on_failure,
                   "end with exit code 3 when the device is lost (default: go on, and answer 503)");
}

}  // namespace

Command add_serve(CLI::App& app) {
  const auto options = std::make_shared<ServeOptions>();
  CLI::App* command = app.add_subcommand("serve", "Serve a language model over HTTP, as OpenAI's API");
  add_model_options(*command, *options);
  add_gpus_option(*command, *options);
  command->remove_option(command->get_option("--adapter"));
  command->add_option("--alias", options->alias, "the model's name for clients (default: that of its file)");
  command
      ->add_option(
          "--adapter", options->adapters,
          "low-rank adapters, as NAME=FILE: requests choose them by this name of a model; may be given several "
          "times. As FILE: for all requests")
      ->take_all()
      ->allow_extra_args(false);
  std::vector<std::string> formats{"jinja"};
  for (const std::string_view name : data::chat_formats()) formats.emplace_back(name);
  command->add_option("--chat-format", options->chat_format, "of chats (default: that of the model's template)")
      ->check(CLI::IsMember(formats));
  command->add_option("--host", options->http.host, "the address to listen on; 0.0.0.0: all of this machine's")
      ->capture_default_str();
  command->add_option("--port", options->http.port, "0: any free one")
      ->check(number_in(training::integers(0, 65'535)))
      ->capture_default_str();
  command->add_option("--api-key-file", options->key_file, "a file of keys, one per line; each request must have one");
  command
      ->add_option("--allow-host", options->http.allow_hosts,
                   "without keys: a name of this machine that clients may use, besides localhost and addresses; may be "
                   "given several times")
      ->take_all()
      ->allow_extra_args(false);
  add_output(*command, "--cache-file", options->cache_file,
             "read cached prefixes from this file, and save them there at the end and at POST /slots/save",
             options->force);
  add_guess_options(*command, *options);
  add_limits(*command, *options);
  add_image_limits(*command, *options);
  add_serve_receipt_options(*command, *options, options->receipts);
  return {command, [options] {
            if (is_first_rank(*options))
              data::start_template_process();  // while this process is small, with one thread
            return run_on_ranks(*options, [options] { return serve_models(*options); },
                                {.refuse = [options] { refuse_divided(*options); }});
          }};
}

}  // namespace etna::cli
