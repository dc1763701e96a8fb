// Renews what is shown while a job runs, and says so when the server is gone.
(function () {
  var period = 3000;
  var offline = document.getElementById('offline');
  var seen = new Date();
  function schedule() {
    setTimeout(renew, period);
  }
  function renew() {
    var main = document.querySelector('main');
    if (!main.hasAttribute('data-live')) return;
    if (document.hidden) return schedule();
    fetch(location.href, { cache: 'no-store' }).then(function (answer) {
      if (!answer.ok) throw new Error(answer.statusText);
      return answer.text();
    }).then(function (html) {
      var page = new DOMParser().parseFromString(html, 'text/html');
      var scrolled = Array.prototype.map.call(main.querySelectorAll('.wide'), function (box) { return box.scrollLeft; });
      var focused = Array.prototype.indexOf.call(main.querySelectorAll('a, .wide'), document.activeElement);
      var renewed = document.importNode(page.querySelector('main'), true);
      main.replaceWith(renewed);
      Array.prototype.forEach.call(renewed.querySelectorAll('.wide'), function (box, i) { box.scrollLeft = scrolled[i] || 0; });
      var again = renewed.querySelectorAll('a, .wide')[focused];
      if (again) again.focus({ preventScroll: true });
      document.title = page.title;
      seen = new Date();
      offline.hidden = true;
    }).catch(function () {
      offline.querySelector('span').textContent = seen.toLocaleTimeString();
      offline.hidden = false;
    }).then(schedule);
  }
  schedule();
})();
