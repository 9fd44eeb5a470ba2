#include <etna/serve/endpoints.h>
#include <etna/serve/json_text.h>
#include <etna/serve/service.h>

// GET /v1/models and /v1/models/{id}
namespace etna::serve {
namespace {

Json model_json(const Service& service, const ServedModel& model) {
  return {{"id", model.name},
          {"object", "model"},
          {"created", service.started()},
          {"owned_by", "etna"},
          {"input_modalities", model.images != nullptr ? Json::array({"text", "image"}) : Json::array({"text"})},
          {"context_length", model.context},
          {"vocabulary", model.decoder->config.vocabulary}};
}

}  // namespace

HttpReply answer_models(Service& service, const HttpRequest&) {
  Json data = Json::array();
  for (const ServedModel& model : service.engine().models()) data.push_back(model_json(service, model));
  return {.body = json_text({{"object", "list"}, {"data", data}})};
}

HttpReply answer_model(Service& service, const HttpRequest& request) {
  return {.body = json_text(model_json(service, service.model(service.model_index(request.key, "id"))))};
}

}  // namespace etna::serve
