#pragma once

#include <string>

#include <etna/serve/chat_request.h>
#include <etna/serve/fields.h>

/// Images in the messages of chat APIs. Internal.
namespace etna::serve {

/// Each reads what a part of a message has besides its type, adds the file to the images, and returns the text that
/// stands for it. All throw ApiError 400 for addresses of the web, which are not fetched, for other types than PNG and
/// JPEG, and for what is no Base64.

/// {"type": "image_url", "image_url": {"url": "data:image/png;base64,..."}}
std::string read_image_url(Fields& part, ChatImages& images);
/// {"type": "input_image", "image_url": "data:image/png;base64,..."}
std::string read_input_image(Fields& part, ChatImages& images);
/// {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "..."}}
std::string read_image_source(Fields& block, ChatImages& images);

}  // namespace etna::serve
