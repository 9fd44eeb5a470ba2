#pragma once

#include <cstddef>

/// Colours and letters of the pictures, light and dark.
namespace etna::training {

/// Classes k0, k1 ...
inline constexpr std::size_t kSvgColours = 10;

// The picture scales with its page, so its letters are larger on a narrow one and every second tick stays without.
inline constexpr const char* kSvgStyle = R"(<style>
.etna-plot{color:#1f2328;color-scheme:light dark;
font-family:system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
.etna-plot text{font-size:13px;fill:currentColor}
.etna-plot .title{font-size:15px;font-weight:600}
.etna-plot .paper{fill:#ffffff}.etna-plot .soft{fill:#59636e}.etna-plot .grid{stroke:#d8dee4;fill:none}
.etna-plot .k0{stroke:#0969da;fill:#0969da}.etna-plot .k1{stroke:#d1570b;fill:#d1570b}
.etna-plot .k2{stroke:#1a7f37;fill:#1a7f37}.etna-plot .k3{stroke:#8250df;fill:#8250df}
.etna-plot .k4{stroke:#bf3989;fill:#bf3989}.etna-plot .k5{stroke:#0e7490;fill:#0e7490}
.etna-plot .k6{stroke:#8a6a00;fill:#8a6a00}.etna-plot .k7{stroke:#cf222e;fill:#cf222e}
.etna-plot .k8{stroke:#57606a;fill:#57606a}.etna-plot .k9{stroke:#3b3fb5;fill:#3b3fb5}
.etna-plot .line{fill:none;stroke-width:1.7;stroke-linejoin:round;stroke-linecap:round}
@media (prefers-color-scheme:dark){.etna-plot{color:#e6edf3}
.etna-plot .paper{fill:#0d1117}.etna-plot .soft{fill:#9198a1}.etna-plot .grid{stroke:#30363d}
.etna-plot .k0{stroke:#58a6ff;fill:#58a6ff}.etna-plot .k1{stroke:#f0883e;fill:#f0883e}
.etna-plot .k2{stroke:#3fb950;fill:#3fb950}.etna-plot .k3{stroke:#bc8cff;fill:#bc8cff}
.etna-plot .k4{stroke:#f778ba;fill:#f778ba}.etna-plot .k5{stroke:#39c5cf;fill:#39c5cf}
.etna-plot .k6{stroke:#d9a520;fill:#d9a520}.etna-plot .k7{stroke:#ff7b72;fill:#ff7b72}
.etna-plot .k8{stroke:#9198a1;fill:#9198a1}.etna-plot .k9{stroke:#a5b4ff;fill:#a5b4ff}
.etna-plot .line{fill:none}}
@media (max-width:560px){.etna-plot text{font-size:19px}.etna-plot .title{font-size:21px}
.etna-plot .name{font-size:17px}.etna-plot .odd{display:none}.etna-plot .line{stroke-width:2.4}}
</style>
)";

}  // namespace etna::training
