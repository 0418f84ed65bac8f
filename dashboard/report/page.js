// SPDX-License-Identifier: Apache-2.0
// Draws the curves and makes the page comfortable. Every number is in the page without it.
'use strict';
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const charts = [];
  let errors = 0;
  addEventListener('error', () => { document.body.dataset.errors = ++errors; });
  document.body.dataset.errors = 0;

  // One colour a random policy, one dash a mesh: both matter, so neither is told by colour alone.
  const light = ['#0b6e78', '#d2691e', '#7a3fb0', '#1f6fd1', '#b0306a', '#5b7a12', '#8a5a2b', '#444f5c'];
  const dark = ['#4fc3cd', '#f3a05a', '#c39af0', '#7db4f7', '#f08bb8', '#b3d15a', '#d3a878', '#aab6c2'];
  const dashes = [[], [7, 4], [2, 3], [10, 3, 2, 3], [4, 8], [1, 6]];
  const isDark = () => {
    const forced = document.documentElement.dataset.theme;
    return forced ? forced === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  };

  // Zero has no place on a logarithmic axis: it gets a decade of its own below the smallest value.
  const zeroBand = (values) => {
    const positive = values.filter((v) => v > 0);
    return positive.length ? 10 ** (Math.floor(Math.log10(Math.min(...positive))) - 1) : 0.1;
  };
  const short = (v) => {
    const extreme = Math.abs(v) >= 1e4 || (v !== 0 && Math.abs(v) < 1e-3);
    return extreme ? v.toExponential(1).replace('.0e', 'e') : +v.toPrecision(4) + '';
  };

  const isDecade = (v) => Number.isInteger(Math.round(Math.log10(v) * 1e6) / 1e6);

  // The policy that stays closest to the reference gets the first colour.
  const largest = (s) => Math.max(0, ...(s.lossAbs || []).map((v) => v ?? Infinity));
  const sorted = (series) => {
    const closest = (s) => Math.min(...series.filter((x) => x.policy === s.policy).map(largest));
    const byMesh = (a, b) => (a.mesh < b.mesh ? -1 : 1);
    return [...series].sort((a, b) => b.reference - a.reference || closest(a) - closest(b) || byMesh(a, b));
  };
  (data.curves || []).forEach((group) => { group.series = sorted(group.series); });
  const hidden = new Set();  // names of curves that the reader switched off

  function style(group, s) {
    const shown = (group.palette || group).series;
    const distinct = (key) => [...new Set(shown.filter((x) => !x.reference).map((x) => x[key]))];
    const meshes = distinct('mesh').sort();
    const palette = isDark() ? dark : light;
    const color = s.reference ? css('--ink') : palette[distinct('policy').indexOf(s.policy) % palette.length];
    return { label: s.name, borderColor: color, backgroundColor: color, pointRadius: 0, pointHoverRadius: 4,
      hidden: hidden.has(group.title + s.name), borderWidth: s.reference ? 3 : 1.8, tension: 0,
      spanGaps: false, order: s.reference ? 1 : 0,
      borderDash: s.reference ? [] : dashes[meshes.indexOf(s.mesh) % dashes.length] };
  }

  // A piece of the line, and what it is.
  function sample(element, look, words) {
    element.innerHTML =
      '<svg viewBox="0 0 28 10" aria-hidden="true"><line x1="0" x2="28" y1="5" y2="5"/></svg>';
    const stroke = element.querySelector('line').style;
    Object.assign(stroke, { stroke: look.borderColor, strokeWidth: look.borderWidth + 0.6,
      strokeDasharray: look.borderDash.join(' ') });
    element.append(words);
  }

  // One legend for both charts of a group; each curve can be switched off.
  function legend(list, group) {
    list.replaceChildren(...group.series.map((s) => {
      const look = style(group, s);
      const item = document.createElement('li'), button = document.createElement('button');
      button.type = 'button';
      button.setAttribute('aria-pressed', !look.hidden);
      sample(button, look, s.name + (s.reference ? ' (reference)' : ''));
      button.addEventListener('click', () => {
        const key = group.title + s.name;
        if (!hidden.delete(key)) hidden.add(key);
        draw();
        list.children[group.series.indexOf(s)].firstChild.focus();
      });
      item.append(button);
      return item;
    }));
  }

  function options(yTitle, extra) {
    const grid = { color: css('--line') }, ticks = { color: css('--quiet') };
    const title = (text) => ({ display: true, text, color: css('--quiet') });
    return { responsive: true, maintainAspectRatio: false, animation: false,
      interaction: { mode: 'index', intersect: false },
      plugins: { legend: { display: false },
        tooltip: { itemSort: (a, b) => b.raw.y - a.raw.y } },
      scales: { x: { type: 'linear', grid, ticks, title: title('step'), min: extra.min, max: extra.max },
        y: { grid, ticks, title: title(yTitle), ...extra.y } } };
  }

  const line = (xs, ys) => (xs || []).map((x, i) => ({ x, y: ys[i] }));

  // The step where a curve leaves its reference, as a ring on the zero band or the curve.
  const firsts = (s, points) => points.map((p) => (p.x === s.first ? 5 : 0));

  function valueChart(canvas, group, quantity, range) {
    const datasets = group.series.map((s) => ({ ...style(group, s), data: line(s.step, s[quantity]) }));
    const name = quantity === 'loss' ? 'loss' : 'gradient norm';
    const o = options(name, { ...range, y: range.losses });
    return new Chart(canvas, { type: 'line', options: o, data: { datasets } });
  }

  function diffChart(canvas, group, quantity, measure, range) {
    const compared = group.series.filter((s) => s.diffStep);
    const key = quantity + measure;
    const zero = range.zero || zeroBand(compared.flatMap((s) => s[key]));
    const datasets = compared.map((s) => {
      const points = line(s.diffStep, s[key].map((v) => (v === 0 ? zero : v)));
      return { ...style(group, s), data: points, pointRadius: firsts(s, points), pointBorderWidth: 2,
        pointBackgroundColor: css('--card') };
    });
    const label = (v) => (v <= zero * 1.01 ? (group.digits ? 'equal as written' : 'identical') : short(v));
    const ticks = { color: css('--quiet'), callback: (v) => (isDecade(v) ? label(v) : null) };
    const y = { type: 'logarithmic', min: zero / 2, max: range.most, ticks };
    const o = options(measure === 'Ulp' ? 'difference in ulp' : 'absolute difference', { ...range, y });
    o.plugins.tooltip.callbacks = { label: (c) => ` ${c.dataset.label}: ${label(c.raw.y)}` };
    const band = { id: 'band', beforeDatasetsDraw: ({ ctx, chartArea, scales }) => {
      ctx.fillStyle = css('--good-soft');
      const top = scales.y.getPixelForValue(zero * 2.2);
      ctx.fillRect(chartArea.left, top, chartArea.width, chartArea.bottom - top);
    } };
    return new Chart(canvas, { type: 'line', options: o, data: { datasets }, plugins: [band] });
  }

  // Small multiples: a column for what follows the policy, the loss above its distance from one device. Each row
  // has one scale, so that the columns can be compared.
  function drawPolicies() {
    (data.policies || []).forEach((columns, index) => {
      const groups = columns.map(({ group, beside }) => {
        const { series, digits } = data.curves[group];
        const others = beside === undefined ? [] : data.curves[beside].series;
        const stock = others.filter((s) => s.policy === 'single-device' && !s.reference);
        return { digits, title: '', series: [...series, ...stock] };
      });
      const whole = { title: '', series: sorted([...new Set(groups.flatMap((g) => g.series))]) };
      const distances = whole.series.flatMap((s) => s.lossAbs || []);
      const steps = whole.series.flatMap((s) => s.step), losses = whole.series.flatMap((s) => s.loss);
      const range = { min: Math.min(...steps), max: Math.max(...steps),
        losses: { suggestedMin: Math.min(...losses), suggestedMax: Math.max(...losses) }, zero: zeroBand(distances),
        most: 10 ** Math.ceil(Math.log10(Math.max(...distances) || 1)) };
      groups.forEach((group, i) => {
        const canvas = (part) => document.getElementById(`${columns[i].id}-${part}`);
        group.palette = whole;
        charts.push(valueChart(canvas('loss'), group, 'loss', range));
        charts.push(diffChart(canvas('distance'), group, 'loss', 'Abs', range));
      });
      const firstOf = (keep) => whole.series.filter((s, i, list) => keep(s)
        && list.findIndex((x) => keep(x) && x.policy === s.policy) === i);
      const key = [...whole.series.filter((s) => s.reference).slice(0, 1), ...firstOf((s) => !s.reference)];
      document.getElementById(`policies-${index}-key`).replaceChildren(...key.map((s) => {
        const item = document.createElement('li'), words = document.createElement('span');
        words.className = 'key';
        sample(words, { ...style(whole, s), borderDash: [] }, s.reference ? 'one device' : s.policy);
        item.append(words);
        return item;
      }));
    });
  }

  // The scale's ends and steps are Chart.js's own; names of commits are labels of their places.
  function plain(labels, yTitle) {
    const grid = { color: css('--line') }, ticks = { color: css('--quiet') };
    const title = { display: true, text: yTitle, color: css('--quiet') };
    return { responsive: true, maintainAspectRatio: false, animation: false,
      interaction: { mode: 'index', intersect: false },
      plugins: { legend: { labels: { color: css('--ink'), boxWidth: 14, filter: (item) => item.text !== '' } } },
      scales: { x: { grid, ticks: { ...ticks, maxRotation: 60, autoSkip: true } },
        y: { grid, ticks, title, beginAtZero: false } } };
  }

  // The median of a series, the range of its samples, and where the gate saw a change.
  function bandPlot(plot) {
    const marked = (v) => v === 'slower' || v === 'faster' || v === 'changed';
    const accent = css('--accent'), bad = css('--bad'), good = css('--good');
    const color = (v) => (v === 'faster' ? good : marked(v) ? bad : accent);
    const edge = { borderWidth: 0, pointRadius: 0, pointHitRadius: 0, tension: 0 };
    const shade = accent + '2e';
    const median = { label: 'median', data: plot.value, borderColor: accent, backgroundColor: accent,
      borderWidth: 2, tension: 0, pointStyle: plot.marks.map((v) => (marked(v) ? 'triangle' : 'circle')),
      pointRadius: plot.marks.map((v) => (marked(v) ? 8 : 3)), pointBackgroundColor: plot.marks.map(color) };
    const datasets = [median,
      { ...edge, label: 'range of the samples', data: plot.high, fill: '+1', backgroundColor: shade },
      { ...edge, label: '', data: plot.low, backgroundColor: shade }];
    const o = plain(plot.labels, plot.unit);
    o.plugins.tooltip = { callbacks: { label: ({ datasetIndex: d, dataIndex: i }) => (d > 0 ? null
      : ` ${short(plot.value[i])} ${plot.unit} (${short(plot.low[i])} to ${short(plot.high[i])})`
        + (plot.marks[i] ? `, ${plot.marks[i]}` : '')) } };
    return { type: 'line', options: o, data: { labels: plot.labels, datasets } };
  }

  // Failures as bars, cases as a line with a scale of its own.
  function trendPlot(plot) {
    const bar = (label, data, color) =>
      ({ type: 'bar', label, data, backgroundColor: color, yAxisID: 'y', stack: 's' });
    const datasets = [
      bar('failures', plot.failures, css('--different')), bar('not repeatable', plot.unstable, css('--unstable')),
      { type: 'line', label: 'cases', data: plot.cases, borderColor: css('--accent'), borderDash: [5, 4],
        backgroundColor: css('--accent'), borderWidth: 2, pointRadius: 3, tension: 0, yAxisID: 'cases' }];
    const o = plain(plot.labels, 'failures');
    Object.assign(o.scales.y, { beginAtZero: true, suggestedMax: 1 });
    o.scales.y.ticks = { ...o.scales.y.ticks, precision: 0 };
    o.scales.cases = { position: 'right', beginAtZero: true, grid: { drawOnChartArea: false },
      ticks: { color: css('--quiet'), precision: 0 }, title: { display: true, text: 'cases', color: css('--quiet') } };
    return { type: 'bar', options: o, data: { labels: plot.labels, datasets } };
  }

  // A line for each name, logarithmic; what is less than its lower end is shown as zero.
  function linesPlot(plot) {
    const least = 1e-3, palette = isDark() ? dark : light;
    const shown = (v) => (v === null ? null : Math.max(v, least));
    const datasets = plot.lines.map((l, i) => ({ label: l.name, data: l.values.map(shown), spanGaps: true,
      borderColor: palette[i % palette.length], backgroundColor: palette[i % palette.length], borderWidth: 2,
      borderDash: dashes[i % dashes.length], pointRadius: 3, tension: 0 }));
    const o = plain(plot.labels, plot.unit);
    const ticks = { color: css('--quiet'), callback: (v) => (isDecade(v) ? (v <= least ? '0' : short(v)) : null) };
    Object.assign(o.scales.y, { type: 'logarithmic', min: least, ticks });
    o.scales.x.title = { display: true, text: plot.along, color: css('--quiet') };
    o.plugins.tooltip = { callbacks: { label: ({ datasetIndex: d, dataIndex: i }) =>
      ` ${plot.lines[d].name}: ${short(plot.lines[d].values[i])} ${plot.unit}` } };
    return { type: 'line', options: o, data: { labels: plot.labels, datasets } };
  }

  function drawPlots() {
    const makers = { band: bandPlot, trend: trendPlot, lines: linesPlot };
    (data.plots || []).forEach((plot) =>
      charts.push(new Chart(document.getElementById(plot.id), makers[plot.kind](plot))));
  }

  function draw() {
    charts.splice(0).forEach((chart) => chart.destroy());
    (data.curves || []).forEach((group, i) => {
      const chosen = (name) => document.querySelector(`input[name="${name}${i}"]:checked`).value;
      const steps = group.series.flatMap((s) => s.step);
      const range = { min: Math.min(...steps), max: Math.max(...steps) };
      legend(document.getElementById(`curve-${i}-series`), group);
      const canvas = (part) => document.getElementById(`curve-${i}-${part}`);
      charts.push(valueChart(canvas('value'), group, chosen('quantity'), range));
      charts.push(diffChart(canvas('diff'), group, chosen('quantity'), chosen('measure'), range));
    });
    drawPolicies();
    drawPlots();
    document.body.dataset.charts = charts.length;
  }

  function copying() {
    all('.copy').forEach((button) => button.addEventListener('click', async () => {
      const text = document.getElementById(button.dataset.copy).textContent;
      try {
        await navigator.clipboard.writeText(text);
      } catch {  // not allowed on a page from disk: the old way
        const area = Object.assign(document.createElement('textarea'), { value: text });
        document.body.append(area);
        area.select();
        document.execCommand('copy');
        area.remove();
      }
      button.textContent = 'Copied';
      setTimeout(() => { button.textContent = 'Copy'; }, 1500);
    }));
  }

  // One stop for the tabulator; arrow keys walk from square to square, Enter shows the cases behind one.
  function matrix() {
    const table = document.querySelector('.matrix'), filter = document.getElementById('op-filter');
    if (!table) return;
    const worst = document.getElementById('op-worst'), says = document.getElementById('cell-says');
    const rows = all('tbody tr', table);
    const op = (row) => row.cells[0].textContent;
    const column = (cell) => table.tHead.rows[0].cells[cell.cellIndex].textContent;
    const apply = () => rows.forEach((row) => {
      const named = op(row).includes(filter.value.trim());
      row.hidden = !named || (worst.checked && row.dataset.worst === '0');
    });
    filter.addEventListener('input', apply);
    worst.addEventListener('change', apply);
    const square = (event) => event.target.closest('td.c');
    const tell = (event) => {
      const cell = square(event);
      if (cell) says.textContent = `${op(cell.parentNode)} on ${column(cell)}: ${cell.title}`;
    };
    const open = (cell) => {
      if (!table.dataset.cases) return;
      const to = new URL(table.dataset.cases, location.href);
      to.searchParams.set('op', op(cell.parentNode));
      to.searchParams.set(table.dataset.parameter, column(cell));
      location.href = to;
    };
    const stop = (cell) => {
      all('td[tabindex="0"]', table).forEach((old) => { old.tabIndex = -1; });
      cell.tabIndex = 0;
    };
    const first = table.querySelector('td.c');
    if (first) stop(first);
    // The next square in this direction, over empty places and hidden rows.
    const next = (cell, down, right) => {
      let row = cell.parentNode, index = cell.cellIndex;
      for (;;) {
        index += right;
        if (down) do row = down > 0 ? row.nextElementSibling : row.previousElementSibling; while (row && row.hidden);
        const found = row && index > 0 && row.cells[index];
        if (!found || found.classList.contains('c')) return found;
      }
    };
    const ways = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };
    table.addEventListener('keydown', (event) => {
      const cell = square(event), way = ways[event.key];
      if (!cell) return;
      if (event.key === 'Enter') open(cell);
      const to = way && next(cell, ...way);
      if (way) event.preventDefault();
      if (to) { stop(to); to.focus(); }
    });
    ['mouseover', 'focusin'].forEach((name) => table.addEventListener(name, tell));
    table.addEventListener('click', (event) => {
      tell(event);  // a finger has no hover
      const cell = square(event);
      if (cell) { stop(cell); open(cell); }
    });
    table.classList.toggle('leads', Boolean(table.dataset.cases));
  }

  function navigation() {
    const here = document.querySelector('nav a.here');
    if (here) here.scrollIntoView({ block: 'nearest', inline: 'center' });
    if (!document.querySelector('nav a[href^="#"]')) return;
    const links = new Map(all('nav a').map((a) => [a.hash.slice(1), a]));
    const watch = new IntersectionObserver((entries) => entries.forEach((e) => {
      if (e.isIntersecting) links.forEach((a, id) => a.classList.toggle('here', id === e.target.id));
    }), { rootMargin: '-20% 0px -70% 0px' });
    all('.panel').forEach((panel) => watch.observe(panel));
  }

  // A page from disk may have no memory.
  function remember(name, value) {
    try {
      if (value) localStorage.setItem(name, value);
      return localStorage.getItem(name);
    } catch { return null; }
  }

  const theme = remember('theme');
  if (theme === 'dark' || theme === 'light') document.documentElement.dataset.theme = theme;
  // What must be scrolled can be reached with the keyboard.
  const scrollers = () => all('.scroll').forEach((box) => {
    if (box.scrollWidth > box.clientWidth || box.scrollHeight > box.clientHeight) box.tabIndex = 0;
  });
  addEventListener('resize', scrollers);
  scrollers();

  document.getElementById('theme').addEventListener('click', () => {
    document.documentElement.dataset.theme = isDark() ? 'light' : 'dark';
    remember('theme', document.documentElement.dataset.theme);
    draw();
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
  all('[data-curve] input').forEach((input) => input.addEventListener('change', draw));
  const only = document.getElementById(location.hash.replace(/^#only=/, ''));
  if (only && location.hash.startsWith('#only=')) {
    only.classList.add('only');
    document.body.dataset.only = only.id;
  }
  copying();
  matrix();
  navigation();
  draw();
  document.body.dataset.ready = 1;
})();
