#include <fmt/format.h>

#include <etna/data/tokenizers/stream_decoder.h>
#include <etna/serve/api_error.h>
#include <etna/serve/chat.h>
#include <etna/serve/chat_fields.h>
#include <etna/serve/endpoints.h>
#include <etna/serve/internal/images.h>

// POST /tokenize, /detokenize and /apply-template
namespace etna::serve {
namespace {

/// A piece of a character is no text: llama-server shows its bytes.
Json piece_json(std::string_view bytes) {
  const std::string text(bytes);
  if (data::replace_invalid_utf8(text) == text) return text;
  Json numbers = Json::array();
  for (const char byte : text) numbers.push_back(static_cast<unsigned char>(byte));
  return numbers;
}

std::size_t read_model(Fields& fields, const Service& service) {
  return service.model_index(fields.string_if("model").value_or(""));
}

}  // namespace

HttpReply answer_tokenize(Service& service, const HttpRequest& request) {
  const Json body = parse_json(request.body);
  Fields fields(body, "");
  const data::Tokenizer& tokenizer = service.tokenizer(read_model(fields, service));
  const std::string content = fields.string("content");
  const bool add_special = fields.flag_if("add_special").value_or(false);
  const bool parse_special = fields.flag_if("parse_special").value_or(true);
  const bool with_pieces = fields.flag_if("with_pieces").value_or(false);
  fields.finish();
  const std::vector<std::int32_t> ids = tokenizer.encode_prompt(
      content, {parse_special ? data::SpecialTokens::recognize : data::SpecialTokens::as_text, add_special});
  Json tokens = Json::array();
  for (const std::int32_t id : ids) {
    tokens.push_back(with_pieces ? Json({{"id", id}, {"piece", piece_json(tokenizer.token(id))}}) : Json(id));
  }
  return {.body = json_text({{"tokens", std::move(tokens)}})};
}

HttpReply answer_detokenize(Service& service, const HttpRequest& request) {
  const Json body = parse_json(request.body);
  Fields fields(body, "");
  const data::Tokenizer& tokenizer = service.tokenizer(read_model(fields, service));
  const Json& given = fields.array("tokens");
  fields.finish();
  std::vector<std::int32_t> ids;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const bool fits = given[i].is_number_integer() && given[i].get<double>() >= 0 &&
                      given[i].get<double>() < static_cast<double>(tokenizer.size());
    if (!fits) {
      throw bad_request(fmt::format("tokens[{}]", i), fmt::format("tokens[{}] is {}; wanted an integer from 0 to {}", i,
                                                                  shown(given[i]), tokenizer.size() - 1));
    }
    ids.push_back(given[i].get<std::int32_t>());
  }
  return {.body = json_text({{"content", tokenizer.decode(ids)}})};
}

HttpReply answer_apply_template(Service& service, const HttpRequest& request) {
  const Json body = parse_json(request.body);
  Fields fields(body, "");
  ChatRequest chat;
  chat.model = fields.string_if("model").value_or("");
  read_messages(fields, chat);
  read_tools(fields, chat);
  fields.finish();
  const std::size_t model = service.model_index(chat.model);
  find_images(service.model(model), chat.images);  // which refuses those that no model sees
  std::string text = data::chat_text(chat_prompt(service, model, chat));
  for (std::size_t i = 0; i < chat.images.files.size(); ++i) {
    const std::string mark = chat.images.text(i);
    for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at))
      text.replace(at, mark.size(), service.model(model).images->vision().marker());
  }
  return {.body = json_text({{"prompt", text}})};
}

}  // namespace etna::serve
