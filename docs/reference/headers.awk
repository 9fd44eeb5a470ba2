# Doxygen's filter for a public header: awk -v root=FOLDER -f headers.awk FOLDER/etna/tensor/ops.h
#
# - A header is a topic of the reference, within its folder's; the comment above its namespace describes it.
# - Sections (// ---- reductions) become sections.
# - ETNA_MACRO(...) that declares something gets the comment above the macro and the one after itself as docstring.
# - Rows of elementwise.def and activations.def become the declarations that they stand for in the header that includes
#   them, with docstrings.
# - Methods without a docstring take the one of the function of the same name.

function say(text) { print text; doc = "" }

function begin_section(text) {
  end_section()
  print "/** @name " toupper(substr(text, 1, 1)) substr(text, 2)
  section = length(indent) ? "class" : "namespace"
  heading = 1
}
function end_section() {
  if (heading) open_section()
  if (section != "") print "/** @} */"
  section = ""
  methods = 0
}
function open_section() { print "*/\n/** @{ */"; heading = 0 }

# Doxygen's commands begin with @ here; the first full stop that ends a sentence ends the short description.
function escaped(text) {
  gsub(/\\/, "&&", text)
  gsub(/ et al\. /, " et al.\\ ", text)
  return text
}

# The lines of `text` as a docstring.
function docstring(text) {
  text = escaped(text)
  gsub(/\n/, "\n/// ", text)
  if (text != "") print "/// " text
}

# `name` as a link from a method's docstring.
function as_method(name) { return "@copybrief etna::" name "\n\n**Method of:** etna::" name "()" }

function declare(text, declaration) {
  docstring(text)
  print declaration
}

# Fields of "MACRO(a, b, f(c, d))", from 1.
function split_row(row, fields,    i, c, depth, count) {
  row = substr(row, index(row, "(") + 1)
  delete fields
  count = 1
  for (i = 1; i <= length(row); ++i) {
    c = substr(row, i, 1)
    if (c == "(") ++depth
    if (c == ")" && depth-- == 0) break
    if (c == "," && depth == 0) ++count
    else if (c != " " || fields[count] != "") fields[count] = fields[count] c
  }
  return count
}

function elementwise(text, f,    name, kind, n, about, or_number) {
  name = f[1]
  n = f[2]
  if (f[3] == "real") kind = "@return the operands' promoted dtype; f32 for integers."
  if (f[3] == "same") kind = "@return the operands' promoted dtype."
  if (f[3] == "truth") kind = "@return bool."
  if (f[3] == "bits") kind = "@return the operands' promoted dtype. @throws DtypeError for floats"
  if (f[9] == "ETNA_NO_GRAD" && f[10] == "ETNA_NO_GRAD") kind = kind "\n\nNot differentiable."
  about = text "\n" kind
  or_number = "The same with a number in place of a tensor: etna::" name "(const Tensor&, const Tensor&"
  if (methods) {
    about = text "\n\n**Method of:** etna::" name "()\n" kind
    if (n == "1") declare(about, "Tensor " name "() const;")
    if (n == "1n") declare(about, "Tensor " name "(double number) const;")
    if (n == "2") declare(about, "Tensor " name "(const Tensor& other) const;")
    if (n == "2") declare(about, "Tensor " name "(double other) const;")
    return
  }
  if (n == "1") declare(about, "Tensor " name "(const Tensor& x);")
  if (n == "1n") declare(about, "Tensor " name "(const Tensor& x, double number);")
  if (n == "2n") declare(about, "Tensor " name "(const Tensor& a, const Tensor& b, double number);")
  if (n == "2") {
    declare(about, "Tensor " name "(const Tensor& a, const Tensor& b);")
    declare(or_number ").", "Tensor " name "(const Tensor& a, double b);")
    declare(or_number ").", "Tensor " name "(double a, const Tensor& b);")
  }
  if (n == "3") {
    declare(about, "Tensor " name "(const Tensor& a, const Tensor& b, const Tensor& c);")
    declare(or_number ", const Tensor&).", "Tensor " name "(const Tensor& a, const Tensor& b, double c);")
    declare(or_number ", const Tensor&).", "Tensor " name "(const Tensor& a, double b, const Tensor& c);")
  }
}

# A value of the enumeration, a module, or two ops.
function activation(text, f,    op) {
  if (header ~ /\/activations\/activations\.h$/) return declare(text, f[2] " = " f[1] ",")
  if (header ~ /^nn\//) {
    if (f[3] != "ETNA_NO_MODULE") declare(text, f[3])
    return
  }
  op[1] = f[2]
  op[2] = "1"
  op[3] = f[4]
  elementwise(text, op)
  op[1] = f[2] "_backward"
  op[2] = "2"
  elementwise("Gradient of " f[2] "(b), times a.", op)
}

function read_table(path,    line, row, text, fields, other) {
  while ((getline line < path) > 0) {
    if (line ~ /^#include "/) {
      split(line, fields, "\"")
      other = path
      sub(/[^\/]*$/, fields[2], other)
      read_table(other)
    } else if (line ~ /^\/\/\/ /) {
      text = text (text == "" ? "" : "\n") substr(line, 5)
    } else if (row != "" || line ~ /^ETNA_/) {
      row = row line
      if (line !~ /\)$/ ) continue
      split_row(row, fields)
      if (row ~ /^ETNA_ELEMENTWISE/) elementwise(text, fields)
      else activation(text, fields)
      row = text = ""
    }
  }
  close(path)
}

BEGIN { as_module = "A module with the arguments of the function of its name." }
FNR == 1 {
  header = FILENAME
  sub(/.*\/include\/etna\//, "", header)
  topic = header
  sub(/\.h$/, "", topic)
  folder = topic
  if (!sub(/\/[^\/]*$/, "", folder)) folder = ""
  gsub(/\//, "_", topic)
  gsub(/\//, "_", folder)
}

{
  # Doxygen takes <etna/...> for HTML; without brackets it makes a link.
  if ($0 ~ /\/\//) while (match($0, /<etna\/[^>]*>/) && $0 !~ /^#include/)
    $0 = substr($0, 1, RSTART - 1) substr($0, RSTART + 1, RLENGTH - 2) substr($0, RSTART + RLENGTH)
  match($0, /^ */)
  indent = substr($0, 1, RLENGTH)
}

# A heading's second and later lines.
heading && /^ *\/\/ / { sub(/^ *\/\/ /, ""); print escaped($0); next }
heading { open_section() }

/^ *\/\/ ---- / {
  sub(/^ *\/\/ ---- /, "")
  begin_section($0)
  methods = /as methods/
  next
}

# Each module implements it; Module's own says how.
{ sub(/std::unique_ptr<Module> another\(\) const override/, "private: &") }

# Classes of which a macro makes several, MaxPool1d and so on.
in_define && /^  class [A-Za-z]*##.* : public / {
  print "/** " as_module " */ \\"
  makes_several[defined] = 1
}
in_define { if (!of_table) print; in_define = /\\$/; next }
/^ *#define ETNA_/ {
  match($0, /ETNA_[A-Za-z0-9_]*/)
  defined = substr($0, RSTART, RLENGTH)
  doc_of[defined] = doc
  doc = ""
  # Those that make declarations of tables are not needed here.
  of_table = defined ~ /^ETNA_(DECLARE_|METHOD_|ELEMENTWISE|ACTIVATION)/
  if (!of_table) print
  in_define = /\\$/
  next
}
/^ *#include <etna\/.*\.def>/ {
  match($0, /<.*>/)
  read_table(root "/" substr($0, RSTART + 1, RLENGTH - 2))
  next
}

# A docstring waits for what it stands above.
/^ *\/\/\/ / || /^ *\/\/\/$/ {
  line = $0
  sub(/^ *\/\/\/ ?/, "", line)
  doc = doc (doc == "" ? "" : "\n") line
  next
}

/^namespace etna/ && !depth {
  if (!described++) {
    print "/// @defgroup " topic " " header
    if (folder != "") print "/// @ingroup " folder
    docstring("`#include <etna/" header ">`\n\n" doc)
  } else if (doc != "") {
    print "/// @addtogroup " topic
    docstring(doc)
  }
  doc = ""
  ++depth
  print
  print "/** @addtogroup " topic "\n@{ */"
  forward = 1
  next
}
/^namespace / { docstring(doc); doc = ""; ++depth; print; next }
# A namespace of forward declarations ends without a comment.
forward && !/^(class|struct) [A-Za-z]*;$/ && !/^} *$/ { forward = 0 }
/^}  \/\/ namespace/ || (forward && /^}/) {
  if (depth == 1) end_section()
  if (--depth == 0) print "/** @} */"
  say($0)
  next
}
section == "class" && (/^ (private|protected):/ || /^};/) { end_section() }

row == "" && match($0, /^ *ETNA_[A-Za-z0-9_]*\(/) {
  macro = substr($0, length(indent) + 1, RLENGTH - length(indent) - 1)
  row = " "
}
row != "" {
  if (match($0, / *\/\/ /)) {
    doc = doc (doc == "" ? "" : "\n") substr($0, RSTART + RLENGTH)
    $0 = substr($0, 1, RSTART - 1)
  }
  row = row $0
  if (row !~ /\) *;?$/) next
  if (doc doc_of[macro] == "" && header ~ /^nn\// && !makes_several[macro]) doc = as_module
  docstring(doc_of[macro] (doc_of[macro] == "" || doc == "" ? "" : "\n\n") doc)
  say(row)
  row = ""
  next
}

methods && doc == "" && $0 !~ /\/\/\/</ && /^  [A-Za-z].*\(.*;$/ {
  match($0, /[a-z_0-9]*\(/)
  doc = as_method(substr($0, RSTART, RLENGTH - 1))
}

# struct AdamOptions are the options of Adam.
doc == "" && /^struct [A-Za-z0-9]*Options {/ {
  name = $2
  sub(/Options$/, "", name)
  doc = "Options of " name "."
}

# A remark on several functions, up to a blank line.
/^\/\/ / { remark = remark (remark == "" ? "" : "\n") substr($0, 4); print; next }
/^ *$/ { remark = "" }
remark != "" && doc == "" && /^[A-Za-z].*\(.*;/ && !/\/\/\/</ { doc = remark }

# Functions whose names and results are alike (conv1d, conv2d), below a described one without a blank line between
# them, share its docstring.
/^ *$/ || /^ *[}#]/ || /\/\/\/</ { shared = "" }
{
  name = type = match($0, /^ *[A-Za-z][^(=]*[ &*][A-Za-z0-9_]+\(/) ? substr($0, RSTART, RLENGTH - 1) : ""
  sub(/.*[ &*]/, "", name)
  type = substr(type, 1, length(type) - length(name))
}
name && !methods && doc != "" { shared = doc; shared_by = name; shared_type = type }
name && shared != "" && doc == "" && type == shared_type && ended &&
    substr(name, 1, 3) == substr(shared_by, 1, 3) {
  doc = (name == shared_by ? "" : "Declared with " shared_by "(): ") shared
}
{
  ended = /[;}] *$/
  docstring(doc)
  say($0)
}
