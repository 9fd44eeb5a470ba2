#pragma once

#include <etna/serve/http.h>

/// One function for each row of the table of endpoints; each is in a source named after it.
namespace etna::serve {

HttpReply answer_chat_completions(Service& service, const HttpRequest& request);
HttpReply answer_responses(Service& service, const HttpRequest& request);
HttpReply answer_messages(Service& service, const HttpRequest& request);
HttpReply answer_count_tokens(Service& service, const HttpRequest& request);
HttpReply answer_completions(Service& service, const HttpRequest& request);
HttpReply answer_embeddings(Service& service, const HttpRequest& request);
HttpReply answer_rerank(Service& service, const HttpRequest& request);
HttpReply answer_models(Service& service, const HttpRequest& request);
HttpReply answer_model(Service& service, const HttpRequest& request);
HttpReply answer_tokenize(Service& service, const HttpRequest& request);
HttpReply answer_detokenize(Service& service, const HttpRequest& request);
HttpReply answer_apply_template(Service& service, const HttpRequest& request);
HttpReply answer_health(Service& service, const HttpRequest& request);
HttpReply answer_metrics(Service& service, const HttpRequest& request);
HttpReply answer_slots(Service& service, const HttpRequest& request);
HttpReply answer_receipt(Service& service, const HttpRequest& request);
HttpReply answer_save_slots(Service& service, const HttpRequest& request);
HttpReply answer_page(Service& service, const HttpRequest& request);
HttpReply answer_endpoints(Service& service, const HttpRequest& request);

}  // namespace etna::serve
