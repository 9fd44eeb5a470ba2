# Doxygen's filter for a Markdown page: awk -v root=FOLDER/ -f pages.awk FOLDER/docs/training.md
#
# Headings get labels, so that links to them (training.md#schedules) work as they do elsewhere; a link to a file that is
# no page becomes its text.

# The anchor that the page's readers know, without letters that labels may not have.
function anchor(text) {
  gsub(/\]\([^)]*\)/, "", text)
  text = tolower(text)
  gsub(/[^a-z0-9_ -]/, "", text)
  gsub(/ /, "-", text)
  return text
}

# A page's label: docs/decisions/001-x.md is page_decisions_001-x.
function label(path) {
  sub(/^docs\//, "", path)
  sub(/\.md$/, "", path)
  gsub(/[^A-Za-z0-9_-]/, "_", path)
  return "page_" path
}

# `target`, seen from this page's folder, as a path from the root.
function resolved(target,    path) {
  path = folder target
  gsub(/\/\.\//, "/", path)
  while (sub(/[^\/.]+\/\.\.\//, "", path)) {}
  return path
}

function link(target,    parts) {
  if (target ~ /^[a-z]+:/) return "](" target ")"
  split(target, parts, "#")
  if (parts[1] == "") return "](@ref " label(page) "__" anchor(parts[2]) ")"
  if (parts[1] !~ /\.md$/) return ""
  return "](@ref " label(resolved(parts[1])) (parts[2] == "" ? "" : "__" anchor(parts[2])) ")"
}

# `line` with its links, outside `code`, made references.
function with_links(line,    out, start, target, open, i) {
  while (match(line, /\]\([^) ]+\)/)) {
    start = RSTART
    target = substr(line, start + 2, RLENGTH - 3)
    out = out substr(line, 1, start - 1)
    line = substr(line, start + RLENGTH)
    # The text's bracket, which may stand on a line before.
    open = 0
    for (i = length(out); i > 0 && !open; --i) if (substr(out, i, 1) == "[") open = i
    if (open > 1 && substr(out, open - 1, 1) == "!") {
      sub(/.*\//, "", target)
      out = out "](" target ")"
    } else if (link(target) == "" && open) {
      out = substr(out, 1, open - 1) substr(out, open + 1)
    } else {
      out = out (link(target) == "" ? "](" target ")" : link(target))
    }
  }
  return out line
}

FNR == 1 {
  page = substr(FILENAME, length(root) + 1)
  folder = page
  sub(/[^\/]*$/, "", folder)
}
/^ *```/ { fenced = !fenced }
fenced || /^ *```/ { print; next }
/<\/?(picture|source)/ { next }
/<img/ { sub(/src="[^"]*\//, "src=\"") }
/^# / { print $0 " {#" label(page) "}"; next }
/^##+ / {
  heading = $0
  sub(/^#+ /, "", heading)
  heading = anchor(heading)
  count = seen[heading]++
  print with_links($0) " {#" label(page) "__" heading (count ? "-" count : "") "}"
  next
}
{ print with_links($0) }
